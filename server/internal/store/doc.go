// Package store is the store of a server, for App. Its folder is the wing of what keeps the state of limits: local in
// this process, with its saved states in statefile, and remote in Redis.
//
// Its rooms know no edges and no listeners. Cli checks local and remote, and config has their settings.
package store
