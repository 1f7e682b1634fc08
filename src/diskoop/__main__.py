"""`python -m diskoop` is `diskoop`"""

from diskoop.cli.app import main

if __name__ == "__main__":
    main()
