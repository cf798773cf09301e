// Package tree finds what an ordered list of keys and values leads to. Values of the tree may have stars.
package tree
