package main

import "math/bits"

// keyLen is the length of every key that is asked for, in bytes: that of an
// account id or an address with its port. Limiters add to it what they do.
const keyLen = 18

// key returns the text of key i of a subject. No two are alike, so that
// subjects which put nothing before their keys do not meet.
func key(subject, i int) string {
	const digits = "0123456789abcdef"
	text := make([]byte, 0, keyLen)
	text = append(text, byte('a'+subject), ':')
	// Odd factors and rotations can be undone, so no two keys meet.
	h := bits.RotateLeft64(uint64(i)*0x9E3779B97F4A7C15, 32) * 0xD6E8FEB86659FD93
	for shift := 60; shift >= 0; shift -= 4 {
		text = append(text, digits[h>>shift&15])
	}
	return string(text)
}

// keysOf returns the first n keys of a subject.
func keysOf(subject, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = key(subject, i)
	}
	return all
}
