package rules

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/sluicehq/sluice/internal/file/reader"
)

// Emptied returns an error if f lacks what an earlier content of the file had, and does not say that this is meant: all
// rules are gone without "rules: []", a list has become an empty file, or a table has lost all its rows. A program that
// reloads the file should keep the earlier content then, because a file that is being written begins so. The error is
// an Errors. See docs/adr/0056.
func (f *File) Emptied(earlier *File) error {
	var all reader.Errors
	for _, of := range slices.Concat([]*File{f}, f.parts) {
		if m := of.withoutRules(earlier); m != nil {
			all = append(all, m)
		}
	}
	reader.Paths(f, func(setting, use, name string) {
		now, path := f.included.Files[name], f.included.Path(name)
		before := earlier.included.at(path)
		var problem string
		switch {
		case use != "included" || f.Joined():
			return // the files of a folder have other names for the settings of rules
		case blank(now) && !blank(before):
			problem = fmt.Sprintf("is empty, and had %d bytes", len(before.Data))
		case isHeader(now) && !blank(before) && !isHeader(before):
			problem = "has the names of its columns, and no other line"
		default:
			return
		}
		all = append(all, f.Blank().Locate(&reader.Error{
			Path: setting, Problem: reader.Quote(path) + " " + problem,
			Suggestion: "write the file again; if nothing belongs in it, write a line that begins with #",
		}))
	})
	if len(all) == 0 {
		return nil
	}
	return all
}

// withoutRules returns a mistake if a file does not say which rules it has, and its earlier content had some.
func (f *File) withoutRules(earlier *File) *reader.Error {
	if f.source == nil || len(f.parts) > 0 || len(f.Rules) > 0 {
		return nil
	}
	setting, what := "rules", "rule"
	if f.source.Foreign {
		setting, what = "descriptors", "limit"
	}
	for _, part := range earlier.parts {
		if part.source.Name == f.source.Name {
			earlier = part
		}
	}
	if f.source.Has(setting) || len(earlier.Rules) == 0 {
		return nil
	}
	return &reader.Error{
		File: f.source.Name, Pos: reader.Pos{Line: 1, Column: 1}, Source: f.source.Line(1),
		Path: setting, Problem: "is missing, and the file had " + reader.Count(len(earlier.Rules), what),
		Suggestion: fmt.Sprintf("write %s: [] if all of them should go", setting),
	}
}

// at returns a file by its path.
func (in *Included) at(path string) (file IncludedFile) {
	for _, file := range in.Files {
		if file.Path == path {
			return file
		}
	}
	return file
}

// blank reports whether a file has nothing but white space.
func blank(file IncludedFile) bool { return len(bytes.TrimSpace(file.Data)) == 0 }

// isHeader reports whether a file is a table without rows and comments.
func isHeader(file IncludedFile) bool {
	text := bytes.TrimSpace(file.Data)
	return bytes.HasPrefix(text, []byte("key,")) && !bytes.ContainsAny(text, "\n#")
}
