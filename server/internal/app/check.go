package app

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/sluicehq/sluice/internal/denial"
	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/access"
	"github.com/sluicehq/sluice/server/internal/config"
	"github.com/sluicehq/sluice/server/internal/listen/accept"
	"github.com/sluicehq/sluice/server/internal/observe/audit"
	"github.com/sluicehq/sluice/server/internal/observe/logfile"
	"github.com/sluicehq/sluice/server/internal/secret"
	"github.com/sluicehq/sluice/server/internal/store"
)

// Check returns everything that would keep a server with these options from starting on this machine: certificates,
// tokens, secrets, and files and folders that the server could not read or write. It reads with the functions that the
// server uses, and finds all mistakes at once. The error is a reader.Errors: each mistake has the position of its
// setting, and the remedy. Check makes no file and opens no port. So it does not find that a port is in use or needs
// more rights, that another server has the saved states, or that nobody reads a pipe.
func Check(o Options) error {
	f := o.File
	var callers *access.Callers // unknown if the tokens cannot be read
	tokens, refused := o.secrets(), error(nil)
	if o.ReadTokens != nil {
		tokens, refused = o.ReadTokens(f)
	}
	if refused == nil {
		callers = access.NewCallers(tokens, f.API.Open, (*audit.Log)(nil).Refusals)
	}
	_, secrets := f.Log.Fingerprinter()
	_, key := f.ScaleOut.Webhook.Secret()
	err := errors.Join(
		refused, accept.Check(f.Listen.All(), callers), checkUpstream(&f.Upstream), store.Check(&f.Store.Memory, f.Store.Redis),
		secrets, checkLog("access_log.file", f.AccessLog.File), checkLog("audit.file", f.Audit.File), key, checkAnswers(f),
	)
	all := mistakes(err)
	for _, m := range all {
		m.Path = cmp.Or(o.Overridden[m.Path], m.Path)
	}
	return o.File.Locate(all...)
}

// mistakes returns the mistakes that are joined in an error.
func mistakes(err error) []*reader.Error {
	if err == nil {
		return nil
	}
	if one, ok := err.(*reader.Error); ok { //nolint:errorlint // a wrapped one would lose its context
		return []*reader.Error{one}
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var all []*reader.Error
		for _, err := range several.Unwrap() {
			all = append(all, mistakes(err)...)
		}
		return all
	}
	return []*reader.Error{{Problem: err.Error()}}
}

// checkLog checks whether lines could be appended to a file.
func checkLog(setting, path string) error {
	if path == "" {
		return nil
	}
	if err := logfile.Check(path); err != nil {
		return secret.Mistake(setting, err.Error(), "give a path where this program may write")
	}
	return nil
}

// checkAnswers reads the files that rules answer with. Without any, it spares the time to compile the rules.
func checkAnswers(f *config.File) error {
	for i := range f.Rules {
		if f.Rules[i].WhenLimited.File == "" {
			continue
		}
		p, err := f.Policy()
		if err == nil {
			err = denial.CheckFiles(p)
		}
		if err != nil {
			return fmt.Errorf("the answers of rules: %w", err)
		}
		break
	}
	return nil
}
