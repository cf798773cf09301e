// Package store is the wing of what keeps the state of limits for the server: local in this process, with its saved states in
// statefile, and remote in Redis.
//
// Its rooms know no edges and no listeners. App chooses one, cli checks it, and config has their settings.
package store
