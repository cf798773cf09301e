package accesslog

import (
	"fmt"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Settings is a log of decisions. A decision never waits for it: if the file is too slow, lines are lost and counted.
type Settings struct {
	// File is where each decision becomes a line. It is a path, stdout or stderr. If the file is renamed, the next line
	// begins a new one. Default: none.
	File string `yaml:"file" path:"written"`
	// Format is the form of a line: an object of JSON, or the combined format of web servers. Default: json.
	Format string `yaml:"format" oneof:"json combined"`
	// Sample is the part of the decisions that is logged, at random. Default: 100%.
	Sample reader.Ratio `yaml:"sample"`
}

// Default returns the defaults of the settings.
func Default() Settings { return Settings{Format: "json", Sample: 1} }

// Check checks the settings, which are the section access_log.
func (l *Settings) Check(s *reader.Source) {
	if l.Sample <= 0 || l.Sample > 1 {
		s.Follow("access_log.sample", fmt.Sprintf("is %v", l.Sample), "give more than 0 and at most 100%, or leave file out to log nothing")
	}
	if l.File == "" {
		s.Idle("access_log.format", false, "is given, and access_log.file is not", "give a file, or remove it")
		s.Idle("access_log.sample", false, "is given, and access_log.file is not", "give a file, or remove it")
	}
}
