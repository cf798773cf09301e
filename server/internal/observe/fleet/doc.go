// Package fleet adds what several servers count, for a page that shows all of them.
package fleet
