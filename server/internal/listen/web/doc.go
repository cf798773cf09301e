// Package web serves HTTP at a listener. It ends the connections whose requests another server may read differently, and
// loses no request when the server drains.
package web
