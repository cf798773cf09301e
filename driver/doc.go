// Package driver is for authors of stores. Programs that use a store need nothing of it.
//
// A store implements [sluice.Store], and package storetest has the contract, as tests. [Decide] has the arithmetic: a
// store keeps a [State] and a [BanState] for each key, and calls Decide with them. State.Cancel, Settle and Release end
// what Decide has charged. States become bytes by AppendBinary, for stores over a database. The example is a whole store.
//
// A store may have more: it can be a [Taker], a [sluice.Banner], a [Sharded], a [LocalDecider] or a [Grantor]. Its errors
// about batches are a [*DenialError] or a [*ShardError].
package driver
