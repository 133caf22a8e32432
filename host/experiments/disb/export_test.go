package disb

// File is what was foretold.
var File = foretold
