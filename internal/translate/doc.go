// Package translate is what our stores do alike, wherever they keep their state: it puts
// requests in the terms of package algo, and what that answers in the terms of the caller.
package translate
