// Package remote is the store in Redis as a server uses it: it connects, watches, and connects again with new secrets; it
// explains why a server cannot be used; and while there is no answer, rules decide by their fallbacks.
package remote
