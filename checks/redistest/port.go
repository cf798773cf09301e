package redistest

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the range that systems give to outgoing connections
// (from 32768 on Linux). A server that is killed and started again would else find
// its port taken by a client that dials, even by one that dials that very port and
// reaches itself.
const (
	lowestPort = 16384
	portCount  = 16000
)

// ports are the ports of one server, as decimal text.
type ports struct{ plain, tls, bus string }

func freePorts() (ports, error) {
	free, err := FreePorts(3)
	if err != nil {
		return ports{}, err
	}
	return ports{free[0], free[1], free[2]}, nil
}

// FreePorts returns so many free ports, which differ, for servers that a test starts.
func FreePorts(n int) (free []string, err error) {
	var taken []net.Listener // all at once, so that they differ
	defer func() {
		for _, l := range taken {
			err = errors.Join(err, l.Close())
		}
	}()
	for range n {
		l, err := listenFree()
		if err != nil {
			return nil, err
		}
		taken = append(taken, l)
		free = append(free, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
	}
	return free, nil
}

// listenFree listens on a free port of the range.
func listenFree() (net.Listener, error) {
	for range 200 {
		port := lowestPort + rand.IntN(portCount)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
	}
	return nil, errors.New("redistest: found no free port on 127.0.0.1")
}
