// Package prefetch loads memory ahead of its use. The processor cannot do so by itself across a lock or a read of the
// clock.
package prefetch
