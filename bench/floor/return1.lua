-- Nothing: what remains is the server's own cost of a script.
return 1
