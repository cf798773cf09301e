package main

// sluiceName is our store in the tables, with its token bucket.
const sluiceName = "sluice"

// growingAlgorithms are those whose states have no fixed size.
var growingAlgorithms = []string{}

// sluiceSubjects returns our store with a token bucket.
func sluiceSubjects() []subject { return nil }

// sluiceAlgorithms returns our store with each of the other algorithms.
func sluiceAlgorithms() []subject { return nil }

// sluiceBounded returns our store with a bound.
func sluiceBounded() []bounded { return nil }

// sluiceMiddlewares returns our middleware.
func sluiceMiddlewares() []middleware { return nil }
