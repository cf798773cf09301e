package main

// sluiceSubjects returns our store with a token bucket.
func sluiceSubjects() []subject { return nil }

// sluiceBatches returns our store with four.
func sluiceBatches() []subject { return nil }
