package overredis

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// span is the value of a flag: a positive duration.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }

// Set implements flag.Value.
func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("give a positive duration, such as 2s")
	}
	*s = span(d)
	return err
}

// numbers is the value of a flag: numbers that are separated by commas.
type numbers []int

func (n *numbers) String() string {
	words := make([]string, len(*n))
	for i, v := range *n {
		words[i] = strconv.Itoa(v)
	}
	return strings.Join(words, ",")
}

// Set implements flag.Value.
func (n *numbers) Set(text string) error {
	*n = nil
	for word := range strings.SplitSeq(text, ",") {
		v, err := strconv.Atoi(word)
		if err != nil || v < 1 || v > 4096 {
			return fmt.Errorf("%q is not a number from 1 to 4096", word)
		}
		*n = append(*n, v)
	}
	return nil
}
