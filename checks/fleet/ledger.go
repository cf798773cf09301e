package fleet

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
)

// A Spend is a decided request. The decision was made between From and To, on the clock of the fleet.
type Spend struct {
	From, To int64 // nanoseconds
	Units    int64 // 0: the request was denied
	Load     int   // the index in Spec.Loads
}

const (
	recordBytes = 24
	// ledgerRecords bounds a ledger. Its file has no more on the disk than was written.
	ledgerRecords = 1 << 16
)

// A Ledger is a file of decisions that is mapped into memory: the system keeps what was written when the
// process is killed. It is safe for concurrent use.
type Ledger struct {
	records []byte
	next    atomic.Int64
	lost    atomic.Int64
}

// NewLedger makes a ledger.
func NewLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const size = ledgerRecords * recordBytes
	if err := f.Truncate(size); err != nil {
		return nil, err
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("fleet: cannot map %s: %w", path, err)
	}
	return &Ledger{records: b}, nil
}

// Write adds a spend.
func (l *Ledger) Write(s Spend) {
	i := l.next.Add(1) - 1
	if i >= ledgerRecords {
		l.lost.Add(1)
		return
	}
	r := l.records[i*recordBytes:][:recordBytes]
	binary.LittleEndian.PutUint64(r, uint64(s.From))
	binary.LittleEndian.PutUint64(r[8:], uint64(s.To))
	binary.LittleEndian.PutUint32(r[16:], uint32(s.Units))
	binary.LittleEndian.PutUint32(r[20:], uint32(s.Load)+1) // the last: a record without it is not complete
}

// Lost returns how many spends did not fit.
func (l *Ledger) Lost() int64 { return l.lost.Load() }

// ReadLedger returns the spends in a ledger of this or another process.
func ReadLedger(path string) ([]Spend, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Spend
	empty := 0
	for ; len(b) >= recordBytes && empty < 1000; b = b[recordBytes:] {
		load := binary.LittleEndian.Uint32(b[20:])
		if load == 0 { // the end, or a record that a killed process has not completed
			empty++
			continue
		}
		all = append(all, Spend{
			From:  int64(binary.LittleEndian.Uint64(b)),
			To:    int64(binary.LittleEndian.Uint64(b[8:])),
			Units: int64(binary.LittleEndian.Uint32(b[16:])),
			Load:  int(load - 1),
		})
	}
	return all, nil
}
