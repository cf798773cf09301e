package local

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Settings holds the settings of the memory store.
type Settings struct {
	// MaxSize bounds the memory of all state. Default: 256MiB.
	MaxSize reader.Size `yaml:"max_size"`
	// WhenFull is what happens to new keys when no more state fits: with share, they share one
	// budget per limit; with deny, they are denied. Default: share.
	WhenFull string `yaml:"when_full" oneof:"share deny"`
	// File is a file in which states survive a restart of the server. Each server needs its own. It is
	// secret. A relative path begins at the server's working directory. Default: none, states end with the server.
	File string `yaml:"file" path:"written"`
	// SaveEvery is how often changed states are saved, 10ms to 1h. A crash loses the changes since the last completed save
	// began: up to this interval, and the time that a save takes. Default: 1s.
	SaveEvery time.Duration `yaml:"save_every"`
}

// Check checks the settings of the file of states, at a path.
func (m *Settings) Check(s *reader.Source, path string) {
	const shortest, longest = 10 * time.Millisecond, time.Hour
	switch {
	case s.Has(path+".file") && m.File == "":
		s.Follow(path+".file", "is empty", "give the path of a file, or remove the line")
	case strings.HasSuffix(m.File, "/"):
		s.Follow(path+".file", reader.Quote(m.File)+" is a folder", "give the path of a file in it")
	case m.File == "" && s.Has(path+".save_every"):
		s.FollowKey(path+".save_every", "has no effect without a file", "give store.memory.file, or remove it")
	case m.File != "" && (m.SaveEvery < shortest || m.SaveEvery > longest):
		s.Follow(path+".save_every", fmt.Sprintf("is %v", m.SaveEvery), "give 10ms to 1h")
	}
}

// Default returns the defaults of the settings.
func Default() Settings { return Settings{WhenFull: "share", SaveEvery: time.Second} }
