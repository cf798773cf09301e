package sluice

import (
	"fmt"
	"math/big"
	"strings"
)

// Share is a part of a limit, Of/Parts: {Of: 1, Parts: 4} is a fourth, for one of four processes. It is more than zero and
// at most one. Where a Share is an option, the zero Share is the default. It is a value, safe for concurrent use.
type Share struct {
	// Of and Parts are the share's numerator and denominator: Of parts of Parts, such as 1 and 4. Of is 1 to Parts, and
	// Parts up to 1,000,000.
	Of, Parts int64
}

// maxParts bounds the parts of a share.
const maxParts = 1_000_000

// ParseShare reads a share written as 1/4, 0.25 or 25%. The error shows the forms.
func ParseShare(text string) (Share, error) {
	number, percent := strings.CutSuffix(text, "%")
	r, ok := new(big.Rat), len(text) <= 32 && !strings.ContainsAny(text, "eEpPxX_")
	if ok {
		r, ok = r.SetString(number)
	}
	if !ok || percent && strings.Contains(number, "/") {
		return Share{}, fmt.Errorf("sluice: share %q is not a number; write it as in 1/4, 0.25 or 25%%", text)
	}
	if percent {
		r.Mul(r, big.NewRat(1, 100))
	}
	if !r.Num().IsInt64() || !r.Denom().IsInt64() {
		return Share{}, fmt.Errorf("sluice: share %q has too many digits; give up to six", text)
	}
	s := Share{r.Num().Int64(), r.Denom().Int64()}
	if err := s.Check(); err != nil {
		return Share{}, err
	}
	return s, nil
}

// String returns the share as ParseShare reads it.
func (s Share) String() string { return fmt.Sprintf("%d/%d", s.Of, s.Parts) }

// MarshalText writes the share as String does, and never returns an error.
func (s Share) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a share as ParseShare does, with the same errors.
func (s *Share) UnmarshalText(text []byte) (err error) {
	*s, err = ParseShare(string(text))
	return err
}

// Check returns an error if s is not a share, such as the zero Share.
func (s Share) Check() error {
	if s.Of < 1 || s.Parts < s.Of || s.Parts > maxParts {
		return fmt.Errorf("sluice: share is %v; give more than 0 and up to 1, of no more than %d parts", s, maxParts)
	}
	return nil
}
