package cli

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/sluicehq/sluice/policyfile"
)

// newLogger returns the program's log.
func newLogger(w io.Writer, l policyfile.Log) (*slog.Logger, error) {
	var level slog.Level
	if l.Level != "" {
		if err := level.UnmarshalText([]byte(l.Level)); err != nil {
			return nil, fmt.Errorf("the log level is %q; give debug, info, warn or error", l.Level)
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}
