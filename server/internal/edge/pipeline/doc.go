// Package pipeline decides independent questions that arrive together, such as the commands of a Redis client or the
// requests of a batch. The store decides many of them at once, so they share round trips. Their answers keep their order.
package pipeline
