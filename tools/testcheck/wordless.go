package main

// wordless is how many messages of the tests in each folder have no words: only values, such as "%+v, %v". The numbers may only fall.
var wordless = map[string]int{}
