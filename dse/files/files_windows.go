package files

func begin(path string) (Pending, error) { return create(path) }
