package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// Ports are taken from below the range that systems give to outgoing connections
// (from 32768 on Linux). A server that is killed and started again would else find
// its port taken by a client that dials, even by one that dials that very port and
// reaches itself.
//
// Other tests take ports too, in this process and in others. So each process has a block of ports to itself, and gives
// out the port that was given out longest ago: a server or proxy that listens again finds its port free.
const (
	lowestPort = 16384
	blockSize  = 320
	blocks     = 50
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
	for range n {
		l, err := listenFree()
		if err != nil {
			return nil, err
		}
		free = append(free, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	return free, nil
}

// own is the block of this process.
var own struct {
	mu   sync.Mutex
	lock *os.File // nil before the first port; the system ends the lock with the process
	port int      // the first port of the block
	next int      // the offset of the next one to give out
}

// listenFree listens on a free port of this process.
func listenFree() (net.Listener, error) {
	own.mu.Lock()
	defer own.mu.Unlock()
	if own.lock == nil {
		if err := takeBlock(); err != nil {
			return nil, err
		}
	}
	for range blockSize {
		port := own.port + own.next
		own.next = (own.next + 1) % blockSize
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return l, nil
		}
	}
	return nil, errors.New("redistest: found no free port on 127.0.0.1")
}

// takeBlock finds a block that no other process has, and locks it.
func takeBlock() error {
	folder := filepath.Join(os.TempDir(), fmt.Sprint("redistest-ports-", os.Getuid()))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	for i := range blocks {
		file, err := os.OpenFile(filepath.Join(folder, strconv.Itoa(i)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			own.lock, own.port = file, lowestPort+i*blockSize
			return nil
		}
		_ = file.Close() // nothing was written
	}
	return fmt.Errorf("redistest: %d processes have all ports: run fewer tests at once", blocks)
}
