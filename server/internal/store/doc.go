// Package store is the wing of what keeps the state of limits for the server: the files of saved states.
//
// Its rooms know no rules, no edges and no listeners. Only app imports them.
package store
