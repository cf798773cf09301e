package reader

import (
	"fmt"
	"slices"
	"strings"
)

// DidYouMean suggests the nearest word, or lists all words.
func DidYouMean(word string, words []string) string {
	if w := Nearest(word, words); w != "" {
		return fmt.Sprintf("did you mean %q?", w)
	}
	if len(words) == 0 || len(words) > 40 {
		return ""
	}
	return "give " + OneOf(words)
}

// OneOf lists words as a choice.
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// NearestWord is Nearest without regard to case.
func NearestWord(word string, words []string) string {
	lower := make([]string, len(words))
	for i, w := range words {
		lower[i] = strings.ToLower(w)
	}
	if i := slices.Index(lower, Nearest(strings.ToLower(word), lower)); i >= 0 {
		return words[i]
	}
	return ""
}

// Nearest returns the word that was most likely meant, or "".
func Nearest(word string, words []string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
	}
	if bound := "max_" + word; slices.Contains(words, bound) {
		return bound
	}
	best, least := "", len(plain(word))/3+1
	for _, w := range words {
		if d := Distance(plain(word), plain(w)); d < least || d == least && best == "" && d <= len(plain(word))/3 {
			best, least = w, d
		}
	}
	if best != "" || len(word) < 2 {
		return best
	}
	// A longer word that begins and ends in the same way may have two mistakes.
	for _, w := range words {
		if len(word) > 4 && len(w) > 3 && word[0] == w[0] && word[len(word)-1] == w[len(w)-1] && Distance(plain(word), plain(w)) == 2 {
			return w
		}
	}
	// Otherwise the only word that contains the given word, as "client_ip" contains "ip", or that
	// begins like it.
	for _, w := range words {
		if len(w) > 2 && len(word) > 2 && (strings.HasPrefix(word, w) || strings.HasPrefix(w, word)) || slices.Contains(strings.FieldsFunc(w, func(r rune) bool { return r == '_' || r == '-' }), strings.ToLower(word)) {
			if best != "" {
				return ""
			}
			best = w
		}
	}
	return best
}

// maxWord bounds the length of words that are compared.
const maxWord = 64

// Distance returns how many letters must be inserted, removed, replaced or swapped with their
// neighbor to turn a into b.
func Distance(a, b string) int {
	if len(a) > maxWord || len(b) > maxWord {
		return max(len(a), len(b))
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			same := 1
			if a[i-1] == b[j-1] {
				same = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+same)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
