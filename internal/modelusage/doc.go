// Package modelusage reads what calls of language models cost: the most that a request can use, and what its answer
// reports. It is pure: it has no clock, no network and no settings, and it imports the standard library only.
//
// ReadRequest reads the body of a request. A Scanner reads an answer as it streams by, in constant memory, and holds
// back nothing. AddIncludeUsage makes a stream report its usage, and a Trimmer removes the event that this adds.
//
// Counts are in tokens. A count above Most is Most, so the sum of all counts of a Usage fits into an int64. A count that is
// negative, has a fraction or is written with more than 64 bytes is an error in a request, and is ignored in an answer.
package modelusage

// Most is the largest count of tokens: the largest integer that all readers of JSON agree on.
const Most = 1<<53 - 1
