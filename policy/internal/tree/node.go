package tree

import "strings"

// Node is a position in a tree: what follows the entries that led to it. The zero Node is an empty tree.
type Node[T any] struct {
	// Leaf is what ends here.
	Leaf T
	// Value is the value of the entry that leads here: an exact value, a value with stars, or empty for every value.
	Value string
	exact map[pair]*Node[T]        // values with stars by their own text too
	wild  map[string][]wildcard[T] // by key, in the order in which they were added
	bare  map[string]*Node[T]      // by key
}

type pair struct{ key, value string }

// wildcard is a value with stars, split at them, and what follows.
type wildcard[T any] struct {
	texts []string
	next  *Node[T]
}

// matches reports whether a value is the texts of the wildcard with anything in between.
func (w *wildcard[T]) matches(value string) bool {
	last := len(w.texts) - 1
	value, ok := strings.CutPrefix(value, w.texts[0])
	if !ok || len(value) < len(w.texts[last]) || !strings.HasSuffix(value, w.texts[last]) {
		return false
	}
	value = value[:len(value)-len(w.texts[last])]
	for _, text := range w.texts[1:last] {
		at := strings.Index(value, text)
		if at < 0 {
			return false
		}
		value = value[at+len(text):]
	}
	return true
}

// Follow returns what an entry leads to, nil if the tree has no such entry: what its exact value leads to, then the
// first value with stars that matches, then the entry that takes every value.
func (n *Node[T]) Follow(key, value string) *Node[T] {
	if next := n.exact[pair{key, value}]; next != nil {
		return next
	}
	for i, all := 0, n.wild[key]; i < len(all); i++ {
		if all[i].matches(value) {
			return all[i].next
		}
	}
	return n.bare[key]
}

// Add returns what an entry leads to, and adds the entry if it is new. A star in the value matches any text; an empty
// value takes every value.
func (n *Node[T]) Add(key, value string) *Node[T] {
	if value == "" {
		next := n.bare[key]
		if next == nil {
			if n.bare == nil {
				n.bare = map[string]*Node[T]{}
			}
			next = &Node[T]{}
			n.bare[key] = next
		}
		return next
	}
	at := pair{key, value}
	next := n.exact[at]
	if next != nil {
		return next
	}
	if n.exact == nil {
		n.exact = map[pair]*Node[T]{}
	}
	next = &Node[T]{Value: value}
	n.exact[at] = next
	if strings.Contains(value, "*") {
		if n.wild == nil {
			n.wild = map[string][]wildcard[T]{}
		}
		n.wild[key] = append(n.wild[key], wildcard[T]{strings.Split(value, "*"), next})
	}
	return next
}
