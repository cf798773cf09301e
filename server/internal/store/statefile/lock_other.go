//go:build !unix || solaris || illumos || aix

package statefile

import "os"

// takeLock does nothing: this system has no lock that ends with the process by itself, or needs
// another call for it. Two servers must not have the same file.
func takeLock(*os.File) error { return nil }

// syncFolder does nothing: not every system can sync a folder.
func syncFolder(*os.File) error { return nil }
