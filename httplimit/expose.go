package httplimit

import (
	"io"
	"net/http"
)

// shell is a ResponseWriter around another one, which http.ResponseController finds.
type shell interface {
	http.ResponseWriter
	io.StringWriter
	// FlushError is for http.ResponseController, which would take what Flush does for a success.
	FlushError() error
	Unwrap() http.ResponseWriter
}

// expose returns a ResponseWriter that is w, and a Flusher, Hijacker, ReaderFrom or
// Pusher only if the one inside is: handlers ask for these by a type assertion.
func expose(w shell, inside http.ResponseWriter, f http.Flusher, h http.Hijacker, rf io.ReaderFrom, p http.Pusher) http.ResponseWriter {
	const (
		canFlush = 1 << iota
		canHijack
		canReadFrom
		canPush
	)
	can := 0
	if _, ok := inside.(http.Flusher); ok {
		can |= canFlush
	}
	if _, ok := inside.(http.Hijacker); ok {
		can |= canHijack
	}
	if _, ok := inside.(io.ReaderFrom); ok {
		can |= canReadFrom
	}
	if _, ok := inside.(http.Pusher); ok {
		can |= canPush
	}
	switch can {
	case canFlush:
		return struct {
			shell
			http.Flusher
		}{w, f}
	case canHijack:
		return struct {
			shell
			http.Hijacker
		}{w, h}
	case canFlush | canHijack:
		return struct {
			shell
			http.Flusher
			http.Hijacker
		}{w, f, h}
	case canReadFrom:
		return struct {
			shell
			io.ReaderFrom
		}{w, rf}
	case canFlush | canReadFrom:
		return struct {
			shell
			http.Flusher
			io.ReaderFrom
		}{w, f, rf}
	case canHijack | canReadFrom:
		return struct {
			shell
			http.Hijacker
			io.ReaderFrom
		}{w, h, rf}
	case canFlush | canHijack | canReadFrom:
		return struct {
			shell
			http.Flusher
			http.Hijacker
			io.ReaderFrom
		}{w, f, h, rf}
	case canPush:
		return struct {
			shell
			http.Pusher
		}{w, p}
	case canFlush | canPush:
		return struct {
			shell
			http.Flusher
			http.Pusher
		}{w, f, p}
	case canHijack | canPush:
		return struct {
			shell
			http.Hijacker
			http.Pusher
		}{w, h, p}
	case canFlush | canHijack | canPush:
		return struct {
			shell
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, f, h, p}
	case canReadFrom | canPush:
		return struct {
			shell
			io.ReaderFrom
			http.Pusher
		}{w, rf, p}
	case canFlush | canReadFrom | canPush:
		return struct {
			shell
			http.Flusher
			io.ReaderFrom
			http.Pusher
		}{w, f, rf, p}
	case canHijack | canReadFrom | canPush:
		return struct {
			shell
			http.Hijacker
			io.ReaderFrom
			http.Pusher
		}{w, h, rf, p}
	case canFlush | canHijack | canReadFrom | canPush:
		return struct {
			shell
			http.Flusher
			http.Hijacker
			io.ReaderFrom
			http.Pusher
		}{w, f, h, rf, p}
	default:
		return w
	}
}
