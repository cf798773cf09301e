package policyfile

import (
	"reflect"

	"github.com/goccy/go-yaml/ast"
)

// Store says where state is kept: "memory" alone, or with its settings.
type Store struct {
	// Memory keeps state in the server's own process.
	Memory MemoryStore `yaml:"memory"`
}

// read reads "memory", or a mapping.
func (st *Store) read(d *decoder, path string, n ast.Node) {
	name, ok := n.(*ast.StringNode)
	if !ok {
		d.object(path, n, reflect.ValueOf(st).Elem())
		return
	}
	if name.Value != "memory" {
		d.report(path, quote(name.Value)+" is unknown", didYouMean(name.Value, accepted(reflect.TypeFor[Store]())))
	}
}

// MemoryStore are the settings of the memory store.
type MemoryStore struct {
	// MaxSize bounds the memory of all state. Zero is the store's own default.
	MaxSize Size `yaml:"max_size"`
	// WhenFull is what new keys get when no more fit: "share", a budget in common,
	// or "deny". Default: share.
	WhenFull string `yaml:"when_full" oneof:"share deny"`
}
