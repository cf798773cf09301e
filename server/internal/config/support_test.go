package config

import "github.com/sluicehq/sluice/internal/file/rules"

// parseIn is Parse with a folder, or with other files.
func parseIn(name string, data []byte, in rules.Included) (*File, error) {
	return valid(func(f *File) error { return rules.ParseIn(name, data, in, f) })
}
