package app

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"github.com/sluicehq/sluice/server/internal/secret"
)

// refreshes are the files besides the configuration that are read again when they change: certificates and tokens.
type refreshes struct {
	mu  sync.Mutex
	all []*refresh
	// applied and refused count changes of files.
	applied, refused uint64
}

// refresh is something that was read from files.
type refresh struct {
	what    string   // such as "the certificate of the proxy listener"
	files   []string // where it was read from
	read    func() error
	content [sha256.Size]byte // of the files, as they were read last
	failed  bool              // whether the current files are refused
}

// add reads something from files for the first time.
func (r *refreshes) add(what string, files []string, read func() error) error {
	content := hashFiles(files) // before they are read, so that a change meanwhile is noticed later
	if err := read(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, &refresh{what: what, files: files, read: read, content: content})
	return nil
}

// RefreshFiles returns the files that Refresh reads.
func (a *App) RefreshFiles() []string {
	a.refreshes.mu.Lock()
	defer a.refreshes.mu.Unlock()
	var files []string
	for _, f := range a.refreshes.all {
		files = append(files, f.files...)
	}
	return files
}

// Refresh reads certificates and tokens again if their files have changed. Connections that are made from then on
// use the new certificates, and requests the new tokens. What cannot be read stays as it was; the error is in
// the log and the metrics too. Refresh is safe for concurrent use.
func (a *App) Refresh() error {
	r := &a.refreshes
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, f := range r.all {
		content := hashFiles(f.files)
		if content == f.content {
			continue
		}
		f.content = content
		err := f.read()
		f.failed = err != nil
		a.audit.Refreshed(f.what, err)
		if err != nil {
			r.refused++
			errs = append(errs, err)
			a.logger.Error("files have changed and are refused; the previous content stays in use", "of", f.what, "error", err)
			continue
		}
		r.applied++
		a.logger.Info("files have changed, and their new content is in use", "of", f.what)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("sluice: %w", err)
	}
	return nil
}

// hashFiles returns a hash of the contents of files. A file that cannot be read is hashed as an empty one; the
// error is for the reader of the files.
func hashFiles(files []string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, file := range files {
		content, err := secret.ReadFile(file)
		fmt.Fprintf(h, "%t %d\n", err == nil, len(content))
		h.Write(content)
	}
	h.Sum(sum[:0])
	return sum
}

// publishRefreshes publishes the metrics of files that are read again.
func (a *App) publishRefreshes() {
	r := &a.refreshes
	a.metrics.Counters("sluice_file_refreshes_total", "Changes of files of certificates and tokens, by outcome.",
		"outcome", []string{"applied", "refused"}, func(outcome string) float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			if outcome == "applied" {
				return float64(r.applied)
			}
			return float64(r.refused)
		})
	a.metrics.Gauge("sluice_files_refused", "Certificates and tokens whose current files are refused, so that the previous content is in use.",
		func() float64 {
			r.mu.Lock()
			defer r.mu.Unlock()
			n := 0
			for _, f := range r.all {
				if f.failed {
					n++
				}
			}
			return float64(n)
		})
}
