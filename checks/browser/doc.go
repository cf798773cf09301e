// Package browser has the tests of the page for operators in a real browser, over a real server.
package browser
