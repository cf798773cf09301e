package redistest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A link is the connection of one client to a proxy, and the one from there to
// the server.
type link struct {
	p      *Proxy
	client *net.TCPConn

	once  sync.Once
	ended chan struct{} // closed when everything of the link has to end

	armed atomic.Int64 // number of the mode whose request for Cut has passed

	stranded atomic.Bool // see Proxy.Strand
}

// now returns the mode of the link, and a channel that is closed when it changes.
func (k *link) now() (mode, <-chan struct{}) {
	if k.stranded.Load() {
		return mode{hold: true}, nil
	}
	return k.p.now()
}

// A chunk is what one read gave, and when.
type chunk struct {
	b  []byte
	at time.Time
}

func (k *link) end() { k.once.Do(func() { close(k.ended) }) }

// reset ends the link with an RST to the client.
func (k *link) reset() {
	_ = k.client.SetLinger(0) // fails when it has ended already
	k.end()
}

func (k *link) run() {
	defer func() {
		_ = k.client.Close() // whatever was to arrive has been written
		k.p.mu.Lock()
		delete(k.p.links, k)
		k.p.mu.Unlock()
	}()
	if _, ok := k.wait(time.Time{}); !ok {
		return
	}
	server, err := net.Dial("tcp", k.p.target)
	if err != nil {
		k.p.unreachable.Add(1)
		return
	}
	defer server.Close()

	requests, replies := make(chan chunk, 256), make(chan chunk, 256)
	var parts sync.WaitGroup
	parts.Go(func() { k.read(k.client, requests) })
	parts.Go(func() { k.read(server, replies) })
	parts.Go(func() { k.forward(server, requests) })
	parts.Go(func() { k.back(replies) })
	<-k.ended
	past := time.Unix(1, 0) // ends reads and writes under way
	_ = server.SetDeadline(past)
	_ = k.client.SetDeadline(past)
	parts.Wait()
}

func (k *link) read(from net.Conn, to chan<- chunk) {
	defer close(to)
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case to <- chunk{slices.Clone(buf[:n]), time.Now()}:
			case <-k.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// forward carries requests to the server.
func (k *link) forward(server net.Conn, requests <-chan chunk) {
	defer k.end() // a client that ends its side is gone
	var tail []byte
	for c := range requests {
		m, ok := k.wait(time.Time{})
		if !ok {
			return
		}
		// What arms a cut may lie across two chunks.
		seen := slices.Concat(tail, bytes.ToLower(c.b))
		if m.cut && bytes.Contains(seen, []byte(m.after)) {
			k.armed.Store(m.number)
		}
		tail = seen[max(0, len(seen)-max(0, len(m.after)-1)):]
		if !write(server, c.b, &k.p.toServer) {
			return
		}
	}
}

// back carries replies to the client.
func (k *link) back(replies <-chan chunk) {
	defer k.end()
	var armed int64 // number of the mode that passed counts under
	passed := 0
	for c := range replies {
		m, ok := k.wait(c.at)
		if !ok {
			return
		}
		b, cut := c.b, false
		if m.cut && k.armed.Load() == m.number {
			if armed != m.number {
				armed, passed = m.number, 0
			}
			if left := m.length - passed; left <= len(b) {
				b, cut = b[:left], true
				k.p.cuts.Add(1)
			}
			passed += len(b)
		}
		if !write(k.client, b, &k.p.fromServer) || cut {
			return
		}
	}
}

// write writes and counts. It counts first, so that the client with a reply finds its request
// counted.
func write(to net.Conn, b []byte, count *atomic.Int64) bool {
	count.Add(int64(len(b)))
	n, err := to.Write(b)
	count.Add(int64(n - len(b)))
	return err == nil
}

// wait returns when a chunk that came at that time may pass, and not ok when the
// link has ended. Only replies have a time.
func (k *link) wait(at time.Time) (m mode, ok bool) {
	for {
		m, changed := k.now()
		var due <-chan time.Time
		if !m.hold {
			left := time.Until(at.Add(m.delay))
			if at.IsZero() || left <= 0 {
				select {
				case <-k.ended:
					return m, false
				default:
					return m, true
				}
			}
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-k.ended:
			return m, false
		}
	}
}
