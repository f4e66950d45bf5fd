from mgpu.cli.main import main

main()
