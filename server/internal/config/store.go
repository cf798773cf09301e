package config

import (
	"reflect"
	"strings"

	"github.com/sluicehq/sluice/internal/file/reader"
	"github.com/sluicehq/sluice/server/internal/store/local"
	"github.com/sluicehq/sluice/server/internal/store/remote"
)

// Store is where state is kept: memory, or one store with its settings.
type Store struct {
	// Memory keeps state in the server's own process.
	Memory local.Settings `yaml:"memory"`
	// Redis keeps state in Redis or Valkey, which servers can share. Default: none, for memory.
	Redis *remote.Settings `yaml:"redis" remedy:"write it as in redis: {addresses: [127.0.0.1:6379]}"`
}

// Word reads "memory".
func (*Store) Word(text string) (problem, suggestion string, ok bool) {
	switch {
	case strings.Contains(text, "://"):
		return "is a URL, and a mapping is wanted", "write store: {redis: {" + remote.Mapping(text) + "}}", true
	case text == "redis":
		return "does not give the address of the server", "write store: {redis: {addresses: [127.0.0.1:6379]}}", true
	case text != "memory":
		return "is unknown", reader.DidYouMean(text, reader.Accepted(reflect.TypeFor[Store]())), true
	}
	return "", "", true
}
