package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/sluicehq/sluice/internal/file/rules"
)

// copied is the form of a copy: the file and the other files that it names, as they were read.
type copied struct {
	Format string                `json:"format"`
	Saved  time.Time             `json:"saved"`
	Name   string                `json:"name"`
	Folder string                `json:"folder"`
	Data   []byte                `json:"data"`
	Files  map[string]copiedFile `json:"files"`
	// Sum is a hash of the copy with an empty Sum. It finds files that are cut or changed.
	Sum string `json:"sum"`
}

type copiedFile struct {
	Path string `json:"path"`
	Data []byte `json:"data"`
}

// copyFormat identifies a copy and its version.
const copyFormat = "sluice-configuration-1"

// Copy returns the text of the file, with the other files that it names, as they were read. ParseCopy reads it. It is an
// error for a File that Load or Parse did not return. A copy contains the admin token if the file does.
func (f *File) Copy() ([]byte, error) {
	if f.Source() == nil || f.Source().Data == nil && !f.Joined() {
		return nil, errors.New("config: there is no text to copy; use a File that Load or Parse returned")
	}
	c := copied{
		Format: copyFormat, Saved: time.Now().UTC().Truncate(time.Second),
		Name: f.Source().Name, Folder: f.Included().Folder, Data: f.Source().Data, Files: map[string]copiedFile{},
	}
	if f.Joined() {
		c.Data = f.YAML() // of a folder
	}
	for name, file := range f.Included().Files {
		c.Files[name] = copiedFile{file.Path, file.Data}
	}
	c.Sum = c.sum()
	return json.Marshal(c)
}

// sum returns the hash of the copy.
func (c copied) sum() string {
	c.Sum = ""
	text, err := json.Marshal(c)
	if err != nil {
		return "" // these types are always valid
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ParseCopy reads what Copy returned, and when that was. It reads no other file: lists, overrides and answers are as
// they were. Errors show name as the name of the copy.
func ParseCopy(name string, data []byte) (f *File, saved time.Time, err error) {
	var c copied
	if err := json.Unmarshal(data, &c); err != nil || c.Format == "" {
		return nil, saved, fmt.Errorf("config: %s is not a copy of a configuration, or is cut off; remove it", name)
	}
	switch {
	case c.Format != copyFormat:
		return nil, saved, fmt.Errorf("config: %s is a copy of a configuration in the form %.40q, and this program reads %q; remove it, or start the program that made it", name, c.Format, copyFormat)
	case c.Sum != c.sum():
		return nil, saved, fmt.Errorf("config: %s is a copy of a configuration that was changed since; remove it", name)
	}
	in := rules.Included{Folder: c.Folder, Files: map[string]rules.IncludedFile{}}
	for name, file := range c.Files {
		in.Files[name] = rules.IncludedFile{Path: file.Path, Data: file.Data}
	}
	f, err = valid(func(f *File) error { return rules.ParseIn(c.Name, c.Data, in, f) })
	return f, c.Saved, err
}
