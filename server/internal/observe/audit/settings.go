package audit

// Settings is a log of who changed what.
type Settings struct {
	// File is where each change becomes a line of JSON: bans, resets, reloads, new certificates, starts and stops, and
	// refused calls. It is a path, stdout or stderr. If the file is renamed, the next line begins a new one. While it
	// cannot be written, bans and resets fail and change nothing. Default: none.
	File string `yaml:"file" path:"written"`
}
