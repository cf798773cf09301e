// Package local is the store in this process as a server uses it. It loads its states from a file and saves them there,
// and logs when there is no room for new keys.
package local
