// Package local is the store in this process as a server uses it: its states are loaded from a file and saved there,
// and the log says when there is no room for new keys.
package local
