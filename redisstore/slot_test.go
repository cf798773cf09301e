package redisstore

import "testing"

// TestSlotOf: the check value of CRC-16/XMODEM, and the rules of hash tags, as in
// the cluster specification.
func TestSlotOf(t *testing.T) {
	for _, c := range []struct {
		key  string
		same string
		want uint16
	}{
		{key: "123456789", want: 0x31c3},
		{key: "", want: 0},
		{key: "foo{123456789}bar", want: 0x31c3},
		{key: "{123456789}{x}", want: 0x31c3},
		{key: "}{123456789}", want: 0x31c3},
	} {
		if got := slotOf(c.key); got != c.want {
			t.Errorf("the slot of %q is %d, want %d", c.key, got, c.want)
		}
	}
	for _, whole := range []string{"a{}b{x}", "a{x", "a}x"} {
		if slotOf(whole) == slotOf("x") {
			t.Errorf("%q is hashed by a part", whole)
		}
	}
}
