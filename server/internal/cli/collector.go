package cli

import "os"

// ballastSize is how much more garbage than usual may accumulate before it is collected.
const ballastSize = 32 << 20

// newBallast returns memory that is never used. The collector runs when the heap has grown by its own size again. The
// heap of a server with few keys is 4 MB, so without the ballast the collector would run a hundred times a second. The
// kernel gives no memory for what is never written. If the user has set GOGC or GOMEMLIMIT, there is no ballast.
func newBallast() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, ballastSize)
}
