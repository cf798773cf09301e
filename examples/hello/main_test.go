package main

func Example() {
	main()
	// Output: welcome; 99 left
}
