//go:build !linux

package rueidisstore

import "time"

// setUserTimeout is nil: the option is only in Linux.
var setUserTimeout func(fd uintptr, d time.Duration) error
