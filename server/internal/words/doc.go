// Package words says what rules do in plain English, for those who have written
// them and want to know whether they said what they meant.
package words
