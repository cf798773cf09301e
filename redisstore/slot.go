package redisstore

import "strings"

// slots is how many slots a cluster has.
const slots = 16384

// slotOf returns the slot of a key: the CRC-16 (XMODEM) of what stands between the first
// opening brace and the next closing one, if that is not empty; else of the whole key. See
// the Redis cluster specification.
func slotOf(key string) uint16 {
	if open := strings.IndexByte(key, '{'); open >= 0 {
		if n := strings.IndexByte(key[open+1:], '}'); n > 0 {
			key = key[open+1:][:n]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^key[i]]
	}
	return crc % slots
}

// crcTable holds the remainders of all bytes for the polynomial x¹⁶ + x¹² + x⁵ + 1.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
