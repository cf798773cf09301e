package policyfile

import (
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Store says where state is kept: "memory" alone, or one store with its settings.
type Store struct {
	// Memory keeps state in the server's own process.
	Memory MemoryStore `yaml:"memory"`
	// Redis keeps it in Redis or Valkey; nil for memory.
	Redis *RedisStore `yaml:"redis"`
}

// read reads "memory", or a mapping.
func (st *Store) read(d *decoder, path string, n ast.Node) {
	name, ok := n.(*ast.StringNode)
	switch {
	case !ok:
		d.object(path, n, reflect.ValueOf(st).Elem())
	case name.Value == "redis" || strings.HasPrefix(name.Value, "redis://"):
		d.report(path, quote(name.Value)+" is no way to say where the server is", "write store: {redis: {addresses: [127.0.0.1:6379]}}")
	case name.Value != "memory":
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
