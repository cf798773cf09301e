// Package browser has the tests of the page for operators in a real browser, and of sluice top in a real terminal, over a real
// server.
package browser
