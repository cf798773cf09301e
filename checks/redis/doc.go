// Package redis tests redisstore and its adapters against real servers, and against
// what can happen to servers and on the way to them.
package redis
